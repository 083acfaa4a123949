import time
import numpy as np
from tests.store.test_power_cut import *
import tests.store.test_power_cut as m
def timed_write(path, runs, done):
    import sys
    t=time.time(); done.send(0)
    from sketches.registry import load
    s=runs[0].parts[0].sketches[0]
    a=time.time(); load(s.to_bytes()).merge(s); print('warm merge',time.time()-a, file=sys.stderr)
    for r in runs[:4]:
        a=time.time(); commit(path,r); print('commit',time.time()-a,file=sys.stderr)
def test_a(tmp_path):
    path=tmp_path/'w.duckdb'
    commit(path,run(1))
    for k in range(3):
        here,there=PROCESSES.Pipe(duplex=False)
        a=time.time(); p=PROCESSES.Process(target=timed_write,args=(path,[run(2+4*k+i) for i in range(8)],there)); p.start(); here.recv(); print('ready',time.time()-a); p.join()
        a=time.time(); Store(path).ask(STREAM,Question('count')); print('ask',time.time()-a)
        a=time.time(); content(path); print('content',time.time()-a)

"""What an answer costs in evaluations of the decay, and a 200-point series in single answers.

python -m benchmarks.answers
"""

from __future__ import annotations

import numpy as np

from benchmarks.report import best, publish, table
from sketches import Events, Question, Sample, parse_decay
from sketches.decay import Decay

DECAYS = (
    "window:6h",
    "exp:half_life=2h",
    "poly:alpha=1.5,unit=1m",
    "log:unit=1m",
    "superexp:beta=2,scale=6h",
    "table:0=1,1h=0.5,20h=0",
    "expr:1/(1+age/600)^2",
)
QUESTIONS = {
    "sum": Question("sum"),
    "mean": Question("mean"),
    "selectivity": Question("selectivity", tau=900),
    "correlated-sum": Question("correlated-sum", tau=900),
    "median": Question("median"),
    "heavy-hitters": Question("heavy-hitters", top=10),
}
POINTS = 200


def main() -> None:
    rng = np.random.default_rng(1)
    rows = 4_000_000
    times = rng.integers(0, 86_400, rows) + 1_700_000_000
    sketch = Sample.build(Events.of(np.arange(rows), times, rng.integers(0, 1000, rows)), epsilon=0.0193)
    sample = sketch.askable_sample.sample
    ages = sample.unit.seconds(sample.times.max() - sample.times)
    moments = np.linspace(times.min() + 3600, times.max(), POINTS).astype(np.int64)
    measured = []
    for spec in DECAYS:
        decay: Decay = parse_decay(spec)
        evaluation = best(lambda decay=decay: decay(ages), 15)
        for name, plain in QUESTIONS.items():
            question = Question(name, decay, tau=plain.tau, top=plain.top)
            one = best(lambda question=question: sketch.answer(question), 15)
            series = "no series"
            ratio = ""
            if name != "heavy-hitters":
                many = best(lambda question=question: sketch.series(question, moments), 3)
                series, ratio = f"{many * 1e3:.1f}", f"{many / one:.1f}"
            measured.append(
                (spec, name, f"{evaluation * 1e3:.2f}", f"{one * 1e3:.2f}", f"{one / evaluation:.1f}", series, ratio)
            )
    header = ("decay", "aggregate", "decay ms", "answer ms", "in evaluations", f"{POINTS} points ms", "in answers")
    text = f"{sketch.kept:,} events kept of {rows:,}; asked: at most 10 evaluations, at most 25 answers.\n\n"
    publish("benchmarks.md", "Answers and series", "python -m benchmarks.answers", text + table(header, measured))


if __name__ == "__main__":
    main()

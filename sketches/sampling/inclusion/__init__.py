"""Which events are kept: one `ladder` for a stream, by each event's `sampling_number`.

`nested_sample` is what an epoch kept before there were ladders; the family `integral` still keeps its events so.
"""

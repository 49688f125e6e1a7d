"""One HTML file that shows where the audio went: OUT/runs/<id>/report.html.

It opens from a disk without network, stays under 15 MB whatever the size of the corpus, and is made
from what a run has stored: nothing is measured for it. Charts are SVG that a script of 200 lines
draws from embedded histograms: the charting libraries bring 1 to 5 MB of script (Plotly takes a
third of the file), and none of them gives a chart with limits that move by keyboard.

    facts.py        funnel, hours by dataset and language, of the ledger
    distributions.py, curves.py     histograms, and hours that other limits would keep
    workers.py      slow shards, and workers at work over time, of metrics.parquet
    choosing.py, doubtful.py    which clips are shown: the worst, and those near a limit
    samples.py, clips.py, listen.py     what is known, heard and told of them
    page.py         all of it as one file (page.html, page.css, page.js)
"""

from __future__ import annotations

from tasks.report.page import BYTES, Request, build

__all__ = ["BYTES", "Request", "build"]

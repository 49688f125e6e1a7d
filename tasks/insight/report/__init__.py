"""One HTML file that shows where the audio went: OUT/runs/<id>/report.html.

It opens from a disk without network, stays under 15 MB whatever the size of the corpus, and uses
only what a run has stored. A script of 200 lines draws SVG charts from embedded histograms:
charting libraries bring 1 to 5 MB of script (Plotly takes a third of the file), and none offers
limits that move by keyboard.

    ledger_facts.py     funnel, hours by dataset and language, from the ledger
    measure_charts.py   histograms, and hours that other limits would keep,
                        or limits on the agreement of recognisers,
                        from outcome_columns.py: the table of outcomes
    worker_time.py      slow shards, and busy workers over time, from metrics.parquet
    samples.py          which clips are shown: the worst, and those near a limit,
                        of the ledger and, by uncertain_clips.py, of the outcomes
    clips.py, clip_table.py     audio and text of these clips
    page.py             everything as one file (page.html, page.css, page.js)
"""

from tasks.insight.report.page import BYTES, Request, build

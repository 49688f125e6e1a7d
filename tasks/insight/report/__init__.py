"""One HTML file that shows where the audio went: OUT/runs/<id>/report.html.

It needs no network, stays under 15 MB whatever the size of the corpus, and uses only results that a
run has stored. A script of 200 lines draws SVG charts from embedded histograms: charting libraries
need 1 to 5 MB of script (Plotly would take a third of the file), and none has limits that move by
keyboard.

    ledger_facts.py     funnel, hours by dataset and language, from the ledger
    measure_charts.py   histograms, hours that other limits would keep, and limits on the agreement
                        of recognisers, from the outcomes (outcome_columns.py)
    worker_time.py      slow shards, and busy workers over time, from metrics.parquet
    samples.py          chooses the clips: the worst and those near a limit, from the ledger and,
                        by uncertain_clips.py, from the outcomes
    disagreement.py     clips whose reference and recogniser differ most, by the kind of difference
    clips.py, clip_table.py     audio and text of these clips
    page.py             everything as one file (page.html, page.css, page.js)
"""

from .page import BYTES, Request, build

"""One HTML file that shows where the audio went: OUT/runs/<id>/report.html.

It needs no network, stays under 15 MB whatever the size of the corpus, and uses only results that a
run has stored. A script of 200 lines draws its charts: charting libraries need 1 to 5 MB, and none
has limits that move by keyboard.
"""

from .page import BYTES, build

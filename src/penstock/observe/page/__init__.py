"""A batch as one HTML page, without scripts and without the network.

samples.py ─► what is on a page: panels of each sample, its other uses, substitutes (ledgered.py: from the ledger)
page.py ────► the page: header, filter, one card per sample (cards.py), within limits
               └ drawn.py: panels as HTML and SVG      markup.py: elements, with all text escaped
"""

"""Known weights of models: where they come from, their hashes and licences, and how they get here.

Only `uttermill models fetch` downloads anything.
"""

"""Known weights of models: where they come from, their hashes and licences, and how they get here.

Nothing is fetched but by `uttermill models fetch`.
"""

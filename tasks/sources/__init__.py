"""Sources list recordings. `tasks.plugins.contracts.sources` says what one has.

Every path may be a URL. `_paths` resolves paths, `_lists` reads lists, `_objects` walks a bucket;
`tasks.recording` takes a file's status and opens it. A list cannot refer to a store or bucket that
the settings do not name.
"""

"""Sources list recordings. `tasks.plugins.contracts.sources` says what one has.

Every path may be a URL. `_paths` resolves paths, `_lists` reads lists, `_objects` walks a bucket;
`tasks.recording` tells a file's state and opens its bytes. A list cannot lead to another store or
bucket than the settings name.
"""

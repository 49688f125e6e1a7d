"""Shelf of sources: they list recordings. `tasks.plugins.contracts.sources` says what one has.

A path may be a URL: `_shared` looks at both (`top`, `find`, `guard`, `lines`, `located`),
`_objects` walks a bucket, and `tasks.recording.container` fetches what is decoded. A list leads to
no other store, and to no other bucket, than the settings name.
"""

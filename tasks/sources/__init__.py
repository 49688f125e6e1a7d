"""Shelf of sources. A plug-in has

class Settings(SourceSettings)
def recordings(settings) -> Iterator[Recording | Ignored]    # stable order, reads no audio

Every path may be a URL. `_paths` resolves paths, `_lists` reads lists, `_objects` walks a bucket;
`tasks.recording` tells a file's state and opens its bytes. A list cannot lead to another store or
bucket than the settings name.
"""

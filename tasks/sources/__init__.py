"""Shelf of sources. A plug-in has

class Settings(SourceSettings)
def recordings(settings) -> Iterator[Recording | Ignored]    # stable order, reads no audio
"""

"""The sources' contents now, compared with the known ones; columns throughout, no object per
file."""

"""The sources' current contents, compared with the known ones; in columns throughout, without an
object per file."""

"""What the sources hold now, compared with what is known: columns throughout, no object a file."""

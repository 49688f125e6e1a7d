"""How package splits rows, lays them out in files and writes them."""

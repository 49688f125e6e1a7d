"""How package shares rows out, lays them into files and writes those."""

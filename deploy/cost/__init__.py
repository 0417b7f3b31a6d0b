"""The cost of a fleet, and of a million tokens or a thousand documents of it.

Pure: bench files, counters and prices are handed in. No price is built in. `measured` reads a model's throughput under
a load, `share` divides a GPU's seconds between models, `bill` multiplies by a price, `spot` adds the cost of
interruptions and builds, `report` prints.
"""

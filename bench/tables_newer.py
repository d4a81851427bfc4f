# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""The same tables as tables.py, from the results on a newer Consul."""

import tables

RESULTS = "doc/results/bench-1.22.7.json"
COMMAND = "HOLDFAST_CONSUL=$(scripts/consul --version 1.22.7) scripts/bench --publish"
FIGURES = {"cost-newer": tables.cost, "goals-newer": tables.reached}

# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""MkDocs calls these functions. Their names are MkDocs'."""

import os
import re


def slug(text, separator):
    """The anchor of a heading, as hosting sites make it."""
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", separator)


def on_config(config):
    config.mdx_configs["toc"]["slugify"] = slug
    headers = next(part for part in config.nav if "Headers" in part)
    headers["Headers"] += [f"api/{page}" for page in os.environ["HOLDFAST_API_PAGES"].split()]
    return config

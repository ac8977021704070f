"""The page as a document: complete in itself, strict, and legible in both colour schemes."""

import base64
import hashlib
import re
from urllib.parse import unquote

import pytest

from airflow_hiveacid.plugin.plugin import HiveAcidPlugin
from airflow_hiveacid.plugin.routes import CONTENT_SECURITY_POLICY, page

# Names of XML vocabularies, which are never fetched.
VOCABULARIES = {"http://www.w3.org/2000/svg"}
# Texts and their backgrounds.
PAIRS = [
    *((text, ground) for text in ("text", "quiet") for ground in ("ground", "surface", "raised")),
    *((text, "surface") for text in ("accent", "poor", "minor", "major")),
    *((level, f"{level}-wash") for level in ("good", "fair", "poor")),
    ("poor", "raised"),
    ("accent", "wash"),
    ("text", "wash"),
    ("quiet", "wash"),
    ("accent", "raised"),
]


def content_of(tag):
    return re.search(rf"<{tag}>(.*?)</{tag}>", page(), re.DOTALL)[1]


@pytest.mark.parametrize(("tag", "rule"), [("style", "style-src"), ("script", "script-src")])
def test_the_policy_allows_this_very_content_only(tag, rule):
    digest = base64.b64encode(hashlib.sha256(content_of(tag).encode()).digest()).decode()
    assert f"{rule} 'sha256-{digest}'" in CONTENT_SECURITY_POLICY.split("; ")


def test_nothing_comes_from_elsewhere():
    assert set(re.findall(r"https?://[^\"'` )]+", page())) <= VOCABULARIES
    assert not re.search(r"<(?:link|img|iframe|base)\b|@import|url\(| src=|\son\w+=\"", page())


def test_texts_are_never_made_markup():
    script = content_of("script")
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b", script)


def luminance(colour):
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_stand_out(scheme):
    found = re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", content_of("style"))
    colours = {name: (light if scheme == "light" else dark) for name, light, dark in found}
    for text, ground in PAIRS:
        dim, bright = sorted([luminance(colours[text]), luminance(colours[ground])])
        assert (bright + 0.05) / (dim + 0.05) >= 4.5, (text, ground)


# The navigation of Airflow and its selected entry, by the colour schemes.
NAVIGATION = {"icon": ("#dbe6f5", "#41608f"), "icon_dark_mode": ("#1d3055", "#41608f")}


@pytest.mark.parametrize("name", NAVIGATION)
def test_the_icon_stands_out_also_where_it_is_selected(name):
    icon = unquote(HiveAcidPlugin.external_views[0][name])
    strokes = [luminance(colour) for colour in re.findall(r"stroke='(#\w{6})'", icon)]
    for ground in map(luminance, NAVIGATION[name]):
        ratios = [(max(stroke, ground) + 0.05) / (min(stroke, ground) + 0.05) for stroke in strokes]
        assert max(ratios) >= 3

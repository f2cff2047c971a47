"""Distances between colors, with and without color blindness, and their contrast."""

from __future__ import annotations

import itertools

import numpy as np

# Machado, Oliveira and Fernandes 2009, severity 1: colors as seen with one kind of cones missing, in linear RGB.
SIGHTS = {
    "all": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


def linear(color):
    values = np.array([int(color[start : start + 2], 16) / 255 for start in (1, 3, 5)])
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    """CIE Lab of linear RGB, with white point D65."""
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ np.clip(rgb, 0, 1)
    x, y, z = np.cbrt(np.maximum(xyz / [0.9505, 1.0, 1.089], 0.008856))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def nearest(colors, sight):
    """The smallest distance between two of the colors."""
    seen = [lab(np.array(SIGHTS[sight]) @ linear(color)) for color in colors]
    return min(np.linalg.norm(first - second) for first, second in itertools.combinations(seen, 2))


def contrast(color, ground):
    """The contrast ratio of WCAG 2."""
    low, high = sorted(linear(each) @ [0.2126, 0.7152, 0.0722] for each in (color, ground))
    return (high + 0.05) / (low + 0.05)

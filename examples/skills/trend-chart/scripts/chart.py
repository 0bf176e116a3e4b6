"""Fit a line to a CSV column and draw it."""

import argparse
import csv

import numpy
from PIL import Image, ImageDraw

WIDTH, HEIGHT, MARGIN = 640, 360, 30


def points(values, low, high):
    step = (WIDTH - 2 * MARGIN) / max(len(values) - 1, 1)
    scale = (HEIGHT - 2 * MARGIN) / ((high - low) or 1)
    return [(MARGIN + i * step, HEIGHT - MARGIN - (value - low) * scale) for i, value in enumerate(values)]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--column", required=True)
    parser.add_argument("--out", default="trend.png")
    args = parser.parse_args()
    with open(args.file, newline="", encoding="utf-8") as file:
        values = numpy.array([float(row[args.column]) for row in csv.DictReader(file)])
    slope, start = numpy.polyfit(numpy.arange(len(values)), values, 1)
    line = start + slope * numpy.arange(len(values))
    low, high = float(min(values.min(), line.min())), float(max(values.max(), line.max()))

    image = Image.new("RGB", (WIDTH, HEIGHT), "white")
    draw = ImageDraw.Draw(image)
    draw.rectangle([MARGIN, MARGIN, WIDTH - MARGIN, HEIGHT - MARGIN], outline="grey")
    draw.line(points(line, low, high), fill="red", width=2)
    draw.line(points(values, low, high), fill="navy", width=2)
    image.save(args.out)
    print(f"{len(values)} values, slope {slope:.3f}, chart in {args.out}")


if __name__ == "__main__":
    main()

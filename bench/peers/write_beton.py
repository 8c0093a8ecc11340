"""Writes a folder of JPEGs as FFCV's own format, encoded again at quality 90 as it advises: write_beton.py FOLDER OUT."""

import sys

import images
import PIL.Image
from ffcv.fields import IntField, RGBImageField
from ffcv.writer import DatasetWriter


class Folder:
    def __init__(self, path):
        self.names = images.files(path)

    def __len__(self):
        return len(self.names)

    def __getitem__(self, i):
        return PIL.Image.open(self.names[i]).convert("RGB"), 0


if __name__ == "__main__":
    folder, out = sys.argv[1:]
    fields = {"image": RGBImageField(write_mode="jpg", jpeg_quality=90), "label": IntField()}
    DatasetWriter(out, fields, num_workers=1).from_indexed_dataset(Folder(folder))

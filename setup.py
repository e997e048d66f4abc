"""Builds the optional compiled codecs; without a C compiler the same files run interpreted."""

from setuptools import setup

setup()

#!/bin/sh
# A first walk through the command line; `make demo` runs it with the project on PATH.
set -eu
omnigraph version

#!/usr/bin/env bash
# The program in the README is the example that the tests run.
set -eu
cd "$(dirname "$0")/.."
sed --quiet '/^```cpp$/,/^```$/p' README.md | sed '1d;$d' | diff - <(sed '1,/^$/{/^\/\//d}' examples/embedding.cc)

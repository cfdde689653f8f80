#!/bin/sh
# Answers with MOSAIC_MOCK_RESPONSE, verbatim, and shows every variable of the contract on standard error, sorted.
set -eu
env -0 | grep -z '^MOSAIC_' | LC_ALL=C sort -z | tr '\0' '\n' >&2
printf '%s' "${MOSAIC_MOCK_RESPONSE-}"

#!/bin/sh
# Runs the request as a shell script in the workspace. It is read into this shell, so that its traps are the adapter's own.
# Two functions are there for it: `activity` says that the model has produced something, `turn_done` ends the turn.

activity() {
    (set -C; umask 077; printf 'output\n' >"$MOSAIC_MODEL_ACTIVITY_DIR/proxy-first-output") 2>/dev/null || :
}

turn_done() {
    printf 'done\n' >"$MOSAIC_TURN_MARKER"
}

. "$MOSAIC_REQUEST_FILE"

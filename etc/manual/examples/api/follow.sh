#!/bin/sh
# Prints each publication and each stop as one line of JSON, until it is ended.
set -eu
curl --silent --show-error --fail --no-buffer --netrc-file "$ZKDEPLOYMENT_NETRC" \
    "$ZKDEPLOYMENT_URL/api/v1/events?kinds=publication&kinds=stop" | sed -u -n 's/^data: //p'

#!/bin/sh
# Stops the fleet, for the reason that is given as the argument.
set -eu
jq --null-input --arg reason "$1" '{reason: $reason}' |
    curl --silent --show-error --fail-with-body --netrc-file "$ZKDEPLOYMENT_NETRC" \
        --header 'Content-Type: application/json' --data-binary @- "$ZKDEPLOYMENT_URL/api/v1/stop"

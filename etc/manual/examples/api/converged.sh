#!/bin/sh
# Prints the hosts that are not converged, with the reason for each.
set -eu
ask() {
    curl --silent --show-error --fail --netrc-file "$ZKDEPLOYMENT_NETRC" "$ZKDEPLOYMENT_URL/api/v1/$1"
}
ask status | jq -r '.hosts[] | select(.expected and .state != "converged") | .id' | while read -r host; do
    ask "hosts/$host/why" | jq -r --arg host "$host" '$host + ": " + .answer'
done

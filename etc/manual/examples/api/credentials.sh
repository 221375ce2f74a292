#!/bin/sh
# Keeps the name and the key of a user in a file that nobody else can read, so that no command line shows the key.
set -eu
printf 'The key of %s: ' "$ZKDEPLOYMENT_USER" >&2
read -r key
umask 077
host=${ZKDEPLOYMENT_URL#*://}
printf 'machine %s login %s password %s\n' "${host%%[:/]*}" "$ZKDEPLOYMENT_USER" "$key" >"$ZKDEPLOYMENT_NETRC"

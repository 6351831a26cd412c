#!/bin/sh
# Make version-81cd60a.tar.xz with the `dcc` of that version: make.sh /path/to/its/.venv/bin/dcc
set -eu
dcc=$1 here=$(cd "$(dirname "$0")" && pwd) place=/tmp/stored
rm -rf "$place"
mkdir -p "$place"
export DCC_HOME="$place/home" DCC_MIN_FREE_BYTES=0
"$dcc" init
"$dcc" centre add H
mkdir "$place/incoming"
"$dcc" source add --centre H --protocol file --base-path "$place/incoming"
for kind in valid schema-errors data-errors; do
    "$dcc" example "$place/incoming" --kind "$kind"
    "$dcc" crawl || test $? = 1
done
# What an operator changes in dagster.yaml.
sed -i -e 's/purge_after_days: 90/purge_after_days: 180  # ours: half a year/' "$DCC_HOME/dagster/dagster.yaml"
for file in $(find "$DCC_HOME" -name '*.db'); do
    python3 -c 'import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute("PRAGMA wal_checkpoint(TRUNCATE)"); c.execute("VACUUM")' "$file"
done
tar --directory "$place" --sort=name --owner=0 --group=0 --numeric-owner -cf - home incoming | xz -9e > "$here/version-81cd60a.tar.xz"

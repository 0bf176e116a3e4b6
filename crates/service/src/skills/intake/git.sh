# Fetch one revision ($2) of a repository ($1) and leave its files, without .git, in $3. Runs in a sandbox.
set -eu
git init -q repository
cd repository
git fetch -q --depth 1 --no-tags --no-recurse-submodules -- "$1" "$2" >&2
git checkout -q --detach FETCH_HEAD >&2
git rev-parse HEAD
rm -rf .git
cp -R -P -p . "$3"

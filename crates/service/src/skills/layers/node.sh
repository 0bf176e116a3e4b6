# Run by sh in the build sandbox: NODE LAYER INPUT NPM
set -eu
layer=$2 input=$3 npm=$4
export TMPDIR="$layer/.building" npm_config_update_notifier=false
mkdir "$TMPDIR"
cp "$input/package.json" "$layer/"
cd "$layer"
set -- --omit=dev --no-audit --no-fund --no-progress --loglevel=http --cache "$TMPDIR/npm" \
    --userconfig "$input/npmrc"
echo "== packages"
if [ -e "$input/package-lock.json" ]; then
    cp "$input/package-lock.json" "$layer/"
    "$npm" ci "$@"
else
    "$npm" install "$@"
fi
echo "== clean"
cd /
rm -rf "$TMPDIR"

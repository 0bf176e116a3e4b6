# Run by sh in the build sandbox: PYTHON VENV INPUT UV
set -euf
python=$1 venv=$2 input=$3 uv=$4
# On the disk, not in a small tmpfs.
export TMPDIR="$venv/.building" PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PYTHONUTF8=1
mkdir "$TMPDIR"
set -- -r "$input/requirements.txt"
if [ -e "$input/constraints.txt" ]; then set -- "$@" -c "$input/constraints.txt"; fi

if [ -n "$uv" ]; then
    echo "== environment"
    export UV_CACHE_DIR="$TMPDIR/uv" UV_PYTHON_DOWNLOADS=never UV_NO_CONFIG=1 UV_LINK_MODE=copy UV_SYSTEM_CERTS=1 UV_NATIVE_TLS=1
    # uv does not read pip's settings.
    if [ -n "${PIP_INDEX_URL:-}" ]; then set -- "$@" --index-url "$PIP_INDEX_URL"; fi
    for url in ${PIP_EXTRA_INDEX_URL:-}; do set -- "$@" --extra-index-url "$url"; done
    for place in ${PIP_FIND_LINKS:-}; do set -- "$@" --find-links "$place"; done
    for host in ${PIP_TRUSTED_HOST:-}; do set -- "$@" --allow-insecure-host "$host"; done
    if [ -n "${PIP_NO_INDEX:-}" ]; then set -- "$@" --no-index; fi
    if [ -n "${PIP_CERT:-}" ]; then export SSL_CERT_FILE="$PIP_CERT"; fi
    "$uv" venv --quiet --allow-existing --python "$python" "$venv"
    echo "== packages"
    "$uv" pip install --python "$venv/bin/python" --only-binary :all: "$@" \
        || "$uv" pip install --python "$venv/bin/python" "$@"
else
    echo "== environment"
    "$python" -I -m venv --without-pip "$venv"
    if "$python" -I -m pip --python "$venv/bin/python" --version > /dev/null 2>&1; then
        pip() { "$python" -I -m pip --python "$venv/bin/python" "$@"; }
    else
        "$venv/bin/python" -I -m ensurepip > /dev/null
        pip() { "$venv/bin/python" -I -m pip "$@"; }
    fi
    echo "== packages"
    # Wheels run nothing while they are installed; what has none is compiled, here.
    pip install --no-warn-script-location --progress-bar off --only-binary :all: "$@" \
        || pip install --no-warn-script-location --progress-bar off --prefer-binary "$@"
fi
echo "== clean"
rm -rf "$TMPDIR"

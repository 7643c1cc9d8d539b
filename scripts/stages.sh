#!/usr/bin/env bash
# What scripts/check and scripts/test share: the tools they need, the stages they run, and the count at the end.
# Sourced, not run; $0 is the script that does so.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
target=${CARGO_TARGET_DIR:-$root/target}
[[ $target = /* ]] || target=$PWD/$target
export CARGO_TARGET_DIR=$target CARGO_TERM_COLOR=never

# A stage that takes longer than this hangs.
stage_seconds=${STOCKADE_STAGE_SECONDS:-1800}

passed=0
failed=0
work=$(mktemp -d "${TMPDIR:-/tmp}/stockade-check.XXXXXX")
trap 'rm -rf "$work"' EXIT
# A signal ends the script as anything else does: through the line above.
trap 'exit 130' INT TERM
chmod 755 "$work"
touch "$work/skips"

# ── what is needed ───────────────────────────────────────────────────────────────────────────────────────

script=scripts/$(basename "$0")

install() {
  if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null; then
    echo "$script: $1 is missing and may not be installed from here; install the package $2"
    exit 1
  fi
  echo "$script: $1 is missing, installing $2"
  export DEBIAN_FRONTEND=noninteractive
  apt-get install -qq -y --no-install-recommends "$2" >/dev/null 2>&1 ||
    { apt-get update -qq >/dev/null && apt-get install -qq -y --no-install-recommends "$2" >/dev/null; } ||
    { echo "$script: apt-get could not install $2"; exit 1; }
}

need() { command -v "$1" >/dev/null || install "$1" "$2"; }

need_component() {
  cargo "$1" --version >/dev/null 2>&1 && return
  if command -v rustup >/dev/null && rustup component add "$2" >/dev/null 2>&1; then
    echo "$script: added the toolchain component $2"
  else
    echo "$script: cargo $1 is missing; add the toolchain component $2"
    exit 1
  fi
}

# ── stages ───────────────────────────────────────────────────────────────────────────────────────────────

# Skips that match this are tested in another stage.
expected_skips='^$'

# stage NAME COMMAND…: one line with the outcome and the seconds; the whole output only if it failed.
# Tests count by what their summaries say (and where one has no harness, by its lines), everything else as one.
# Lines of the output that begin with `skipped:` say what was left out here, and are counted.
stage() {
  local name=$1 log=$work/log start=$SECONDS status=0 good bad
  shift
  "$@" >"$log" 2>&1 || status=$?
  good=$(sed -nE -e 's/^test result: .* ([0-9]+) passed; .*/\1/p' -e 's/^test [a-z0-9_]+ \.\.\. ok$/1/p' "$log" | paste -sd+ | total)
  bad=$(sed -nE 's/^test result: .*; ([0-9]+) failed; .*/\1/p' "$log" | paste -sd+ | total)
  if ((good + bad == 0 && status == 0)); then good=1; fi
  if ((status != 0 && bad == 0)); then bad=1; fi
  passed=$((passed + good))
  failed=$((failed + bad))
  if ((status == 0)); then
    printf 'ok      %-44s %4d s  %d passed\n' "$name" $((SECONDS - start)) "$good"
    grep -E '^(note|skipped):' "$log" | grep -vE "$expected_skips" | sort | uniq || true
    grep -E '^skipped:' "$log" | grep -vE "$expected_skips" >>"$work/skips" || true
  else
    sed 's/^/        /' "$log"
    printf 'FAILED  %-44s %4d s  %d passed, %d failed (status %d)\n' "$name" $((SECONDS - start)) "$good" "$bad" "$status"
  fi
}

# A sum such as 3+4, or nothing.
total() { read -r sum || true; echo $((${sum:-0})); }

limited() { timeout --kill-after=10 "$stage_seconds" "$@"; }

# Twice: test builds make modules public (`internals`), and only without that the compiler finds dead code.
lint() {
  limited cargo clippy --quiet --locked --all-targets "$@" -- -D warnings &&
    limited cargo clippy --quiet --locked "$@" -- -D warnings
}

# skip WHAT: left out by the script itself.
skip() { echo "skipped: $1" | tee -a "$work/skips"; }

# The last lines. Where `CI=true`, what was left out is a failure: a gate that checks less must not look like one that
# checks everything.
finish() {
  local skipped
  skipped=$(wc -l <"$work/skips")
  if ((skipped > 0)); then
    echo
    echo "left out:"
    sort "$work/skips" | uniq -c | sed 's/skipped: //'
  fi
  echo "$passed passed, $failed failed, $skipped skipped"
  if ((skipped > 0)) && [[ ${CI:-} = true ]]; then
    echo "CI=true: what is skipped counts as failed"
    return 1
  fi
  ((failed == 0))
}

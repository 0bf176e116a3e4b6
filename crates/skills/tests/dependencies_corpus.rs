//! Scripts as people write them for skills, each with what it needs. They are written for this test; what they do is what
//! public skills do.

use ringfence_skills::{Manifest, Needs, Presence, Tree, TreeLimits, needs};

struct Case {
    name: &'static str,
    file: &'static str,
    text: &'static str,
    requirements: &'static [&'static str],
    optional: &'static [&'static str],
    binaries: &'static [&'static str],
    /// With `!` where the script fails without it, `?` where it has a value of its own.
    variables: &'static [&'static str],
}

const CASES: &[Case] = &[
    Case {
        name: "a PDF tool that explains how to install what is missing",
        file: "scripts/fill_form.py",
        text: r#"#!/usr/bin/env python3
"""Fill a form.

import this_is_documentation
"""
from __future__ import annotations
import argparse, json, sys
from pathlib import Path
try:
    from pypdf import PdfReader, PdfWriter
    from pypdf.generic import NameObject
except ImportError:
    print("Error: pypdf is missing. Run: pip install pypdf", file=sys.stderr)
    sys.exit(1)
try:
    import pdfplumber
except ImportError:
    pdfplumber = None

def main() -> int:
    import pytesseract  # only for scans
    from pdf2image import convert_from_path
    return 0
"#,
        requirements: &["pdf2image", "pypdf", "pytesseract"],
        optional: &["pdfplumber"],
        binaries: &[],
        variables: &[],
    },
    Case {
        name: "an API client with a key",
        file: "scripts/search.py",
        text: r#"import os
import requests
from dotenv import load_dotenv
load_dotenv()
API_KEY = os.environ["SEARCH_API_KEY"]
BASE = os.environ.get("SEARCH_BASE_URL", "https://api.example.com")
proxy = os.getenv("SEARCH_TEAM")
r = requests.get(f"{BASE}/v1?q={os.environ['HOME']}", headers={"Authorization": f"Bearer {API_KEY}"})
"#,
        requirements: &["python-dotenv", "requests"],
        optional: &[],
        binaries: &[],
        variables: &["SEARCH_API_KEY!", "SEARCH_BASE_URL?", "SEARCH_TEAM"],
    },
    Case {
        name: "a chart",
        file: "scripts/chart.py",
        text: r#"import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np, pandas as pd
from mpl_toolkits.mplot3d import Axes3D
from sklearn.linear_model import LinearRegression
from scipy import stats
"#,
        requirements: &["matplotlib", "numpy", "pandas", "scikit-learn", "scipy"],
        optional: &[],
        binaries: &[],
        variables: &[],
    },
    Case {
        name: "an office tool that calls programs",
        file: "scripts/convert.py",
        text: r#"import shutil, subprocess, tempfile, zipfile
from xml.etree import ElementTree
import defusedxml.minidom
from lxml import etree
from docx import Document
from pptx.util import Inches
if not shutil.which("soffice"):
    raise SystemExit("LibreOffice is missing")
subprocess.run(["soffice", "--headless", "--convert-to", "pdf", "x"], check=True)
subprocess.run(
    ["pdftoppm", "-png", "x.pdf"],
    check=True,
)
"#,
        requirements: &["defusedxml", "lxml", "python-docx", "python-pptx"],
        optional: &[],
        binaries: &["pdftoppm", "soffice"],
        variables: &[],
    },
    Case {
        name: "types that are never loaded",
        file: "scripts/typed.py",
        text: r#"from typing import TYPE_CHECKING
if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor
import httpx
def f(x: "pd.DataFrame") -> "Tensor": ...
"#,
        requirements: &["httpx"],
        optional: &[],
        binaries: &[],
        variables: &[],
    },
    Case {
        name: "TOML for old and new Pythons",
        file: "scripts/versions.py",
        text: r#"import sys
if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib
try:
    from yaml import CSafeLoader as Loader
except ImportError:
    from yaml import SafeLoader as Loader
"#,
        requirements: &["pyyaml", "tomli; python_version < \"3.11\""],
        optional: &[],
        binaries: &[],
        variables: &[],
    },
    Case {
        name: "a flag that is checked later",
        file: "scripts/flags.py",
        text: r#"try:
    import openpyxl
    HAS_EXCEL = True
except ImportError:
    HAS_EXCEL = False
try:
    from rich.console import Console
    HAS_RICH = True
except ImportError:
    HAS_RICH = False

def export(rows):
    if not HAS_EXCEL:
        raise RuntimeError("pip install openpyxl")
    if HAS_RICH:
        Console().print(rows)
"#,
        requirements: &["openpyxl"],
        optional: &["rich"],
        binaries: &[],
        variables: &[],
    },
    Case {
        name: "plugins by name",
        file: "scripts/plugins.py",
        text: r#"import importlib
yaml = importlib.import_module("yaml")
np = __import__("numpy")
for name in ("a", "b"):
    importlib.import_module(name)
    importlib.import_module(f"plugins.{name}")
"#,
        requirements: &["numpy", "pyyaml"],
        optional: &[],
        binaries: &[],
        variables: &[],
    },
    Case {
        name: "new f-strings, a match statement and text that looks like code",
        file: "scripts/modern.py",
        text: r#"TEMPLATE = '''
import flask
from django import forms
'''
x = f"{d["import torch"]:>{w}} {'import keras'!r}"
match x:
    case {"kind": "import"}:
        import polars
    case _: import duckdb
s = """\
import boto3
"""; import altair
"#,
        requirements: &["altair", "duckdb", "polars"],
        optional: &[],
        binaries: &[],
        variables: &[],
    },
    Case {
        name: "clouds and clients",
        file: "scripts/cloud.py",
        text: r#"from google.oauth2.credentials import Credentials
from googleapiclient.discovery import build
from google.cloud import storage
from google import genai
import boto3, botocore.exceptions
import azure.storage.blob
from slack_sdk import WebClient
import jwt, yaml
"#,
        requirements: &[
            "azure-storage-blob",
            "boto3",
            "botocore",
            "google-api-python-client",
            "google-auth",
            "google-cloud-storage",
            "google-genai",
            "pyjwt",
            "pyyaml",
            "slack-sdk",
        ],
        optional: &[],
        binaries: &[],
        variables: &[],
    },
    Case {
        name: "a deployment in bash",
        file: "scripts/deploy.sh",
        text: r#"#!/usr/bin/env bash
set -euo pipefail
# docker is not called here
: "${DEPLOY_TARGET:?set DEPLOY_TARGET}"
TOKEN="${DEPLOY_TOKEN:-}"
log() { echo "[deploy] $*"; }
git() { command git -C "$ROOT" "$@"; }
if ! command -v jq >/dev/null 2>&1; then log "no jq"; fi
version=$(git describe | sed 's/^v//')
curl -fsSL -H "Authorization: Bearer $TOKEN" "https://x/$version" \
  | jq -r '.docker | .kubectl' | while read -r line; do
  kubectl apply -f "$line"
done
cat <<EOF > out.yaml
terraform apply
EOF
case "${1:-}" in
  ffmpeg|pandoc) log "$1" ;;
  *) gh release view ;;
esac
"#,
        requirements: &[],
        optional: &[],
        binaries: &["bash", "curl", "gh", "jq", "kubectl"],
        variables: &["DEPLOY_TARGET!", "DEPLOY_TOKEN"],
    },
    Case {
        name: "video in plain sh",
        file: "scripts/clip",
        text: "#!/bin/sh\nfor f in *.mp4; do\n  ffmpeg -i \"$f\" \"out/$f\" && exiftool \"$f\"\ndone\n",
        requirements: &[],
        optional: &[],
        binaries: &["exiftool", "ffmpeg"],
        variables: &[],
    },
    Case {
        name: "a browser in Node",
        file: "scripts/shot.mjs",
        text: r#"#!/usr/bin/env node
import { chromium } from 'playwright';
import fs from 'node:fs/promises';
import path from "path";
const sharp = await import('sharp').catch(() => null);
// import 'commented'
const key = process.env.SHOT_API_KEY, size = process.env.SHOT_SIZE ?? '800';
console.log(`import x from 'y' ${key}`);
"#,
        requirements: &["node:playwright", "node:sharp"],
        optional: &[],
        binaries: &[],
        variables: &["SHOT_API_KEY", "SHOT_SIZE?"],
    },
    Case {
        name: "CommonJS with a program",
        file: "scripts/build.js",
        text: r#"const { execSync } = require('child_process');
const cheerio = require("cheerio");
const { S3 } = require('@aws-sdk/client-s3');
let pretty; try { pretty = require('prettier') } catch (e) {}
execSync('pandoc in.md -o out.pdf', { stdio: 'inherit' });
"#,
        requirements: &["node:@aws-sdk/client-s3", "node:cheerio"],
        optional: &["node:prettier"],
        binaries: &["pandoc"],
        variables: &[],
    },
    Case {
        name: "Ruby",
        file: "scripts/report.rb",
        text: "#!/usr/bin/env ruby\nrequire 'json'\nputs ENV['X']\n",
        requirements: &[],
        optional: &[],
        binaries: &["ruby"],
        variables: &[],
    },
    Case {
        name: "nothing but what Python has",
        file: "scripts/plain.py",
        text: "import json, os.path, sqlite3, urllib.request as r\nfrom concurrent.futures import wait\n",
        requirements: &[],
        optional: &[],
        binaries: &[],
        variables: &[],
    },
];

#[test]
fn scripts_as_people_write_them() {
    for case in CASES {
        let needs = read(case);
        let mut requirements = Vec::new();
        let mut optional = Vec::new();
        if let Some(python) = &needs.python {
            requirements.extend(python.requirements.iter().map(|one| one.text.clone()));
            optional.extend(python.optional.iter().map(|one| one.text.clone()));
        }
        if let Some(node) = &needs.node {
            requirements.extend(node.dependencies.iter().map(|one| format!("node:{}", one.name)));
            optional.extend(node.optional.iter().map(|one| format!("node:{}", one.name)));
        }
        assert_eq!(requirements, case.requirements, "{}", case.name);
        assert_eq!(optional, case.optional, "{}", case.name);
        let binaries: Vec<_> = needs.binaries.iter().map(|one| one.any_of.join("|")).collect();
        assert_eq!(binaries, case.binaries, "{}", case.name);
        let variables: Vec<_> = needs
            .variables
            .iter()
            .map(|one| match one.presence {
                Presence::Required => format!("{}!", one.name),
                Presence::Expected => one.name.clone(),
                Presence::Optional => format!("{}?", one.name),
            })
            .collect();
        assert_eq!(variables, case.variables, "{}", case.name);
        assert!(needs.refused.is_empty(), "{}: {:?}", case.name, needs.refused);
    }
}

fn read(case: &Case) -> Needs {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(case.file);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, case.text).unwrap();
    let tree = Tree::read(directory.path(), TreeLimits::default(), |_, _| false).unwrap();
    let manifest = Manifest {
        name: "example".into(),
        description: "an example".into(),
        license: None,
        compatibility: None,
        allowed_tools: Vec::new(),
        metadata: serde_json::Map::new(),
        extra: serde_json::Map::new(),
        body: String::new(),
    };
    let one = needs(&tree, &manifest, Some(case.file));
    // The only script of a skill needs the same when it is not named.
    assert_eq!(one, needs(&tree, &manifest, None), "{}", case.name);
    one
}

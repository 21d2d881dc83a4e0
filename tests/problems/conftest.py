"""Worlds and catalogs that several tests look at; nothing changes them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from problems.shopping.catalog import Catalog
from problems.shopping.generator import generate
from problems.shopping.shopping_environment import ShoppingEnvironment


@pytest.fixture(scope="session")
def shared_data() -> Path:
    default = Path(__file__).parents[3] / "shared" / "data"
    path = Path(os.environ.get("ARENA_SHARED_DATA", default))
    if not path.is_dir():
        pytest.skip(f"no reference data in {path}; set ARENA_SHARED_DATA")
    return path


@pytest.fixture(scope="session")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    return Catalog.build(tmp_path_factory.mktemp("generated") / "catalog", generate(7, 900))


@pytest.fixture(scope="session")
def environment(catalog: Catalog) -> ShoppingEnvironment:
    return ShoppingEnvironment(catalog)

"""The bfloat16 kernels' own statements, compiled for the host, against ml_dtypes; every value of the left operand."""

import ctypes
import shutil
import subprocess

import ml_dtypes
import numpy as np
import pytest

from mpicoll.runtime import kernels

SHIM = """
#include <string.h>
static float __uint_as_float(unsigned int u) { float f; memcpy(&f, &u, 4); return f; }
static unsigned int __float_as_uint(float f) { unsigned int u; memcpy(&u, &f, 4); return u; }
"""
FUNCTION = "void {0}(int n, const unsigned short *A, {1} *B, unsigned short *O) {{ for (int i = 0; i < n; i++) {{\n"
FUNCTION += "unsigned short a = A[i]; {1} b = B[i]; unsigned short out; {2}; O[i] = out; }} }}\n"
RIGHT = [0.0, -0.0, 1.0, -1.5, 3.0, 1e-40, 3e38, -3e38, np.inf, -np.inf, np.nan, 0.1]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    compiler = shutil.which("cc")
    assert compiler, "a C compiler is needed: apt-get install gcc"
    folder = tmp_path_factory.mktemp("kernels")
    source = SHIM
    for name in kernels.EXPRESSIONS:
        right = "b" if name == "true_divide" else None
        body = kernels.body(name, right) if right else kernels.body(name)
        source += FUNCTION.format(f"k_{name}", "float" if right else "unsigned short", body)
    (folder / "kernels.c").write_text(source)
    command = [compiler, "-O1", "-shared", "-fPIC", "-o", str(folder / "kernels.so"), str(folder / "kernels.c")]
    subprocess.run(command, check=True, timeout=60)
    return ctypes.CDLL(str(folder / "kernels.so"))


@pytest.mark.parametrize("name", kernels.EXPRESSIONS)
def test_as_ml_dtypes_rounds(compiled, name):
    bits = np.arange(1 << 16, dtype=np.uint16)
    left = bits.view(ml_dtypes.bfloat16)
    for value in (1.0, 3.0, 7.0) if name == "true_divide" else RIGHT:
        if name == "true_divide":
            right = np.full(len(bits), value, np.float32)
            with np.errstate(all="ignore"):
                expected = (left.astype(np.float32) / right).astype(ml_dtypes.bfloat16)
        else:
            right = np.full(len(bits), value).astype(ml_dtypes.bfloat16)
            with np.errstate(all="ignore"):
                expected = getattr(np, name)(left, right)
        out = np.empty_like(bits)
        arrays = [array.ctypes.data_as(ctypes.c_void_p) for array in (bits, right, out)]
        getattr(compiled, f"k_{name}")(len(bits), *arrays)
        found = out.view(ml_dtypes.bfloat16).astype(np.float32)
        expected = expected.astype(np.float32)
        np.testing.assert_array_equal(found, expected, f"{name} with {value}")
        assert np.isnan(found[np.isnan(left.astype(np.float32))]).all()

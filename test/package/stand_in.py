# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""A source tree with the real build files and nearly empty sources, for self-tests of packages.

Each library has one function, which uses the libraries that the real one uses. The examples call these functions, and
print what the real ones print. There is no program `holdfast`, because the packages that use this tree do not have it.
"""

import shutil

from script import ROOT

OUTPUT = {"quickstart": "working, with fencing token", "rabbitmq": "working with slot"}
SOURCES = {
    "src/a.cpp": """#include <boost/json.hpp>
int tls();
[[gnu::visibility("default")]] int holdfast_part() { return boost::json::parse("[]").as_array().empty() && tls() ? 0 : 1; }
""",
    "src/net/tls.cpp": """#include <openssl/ssl.h>
int tls() { return SSL_CTX_new(TLS_method()) != nullptr; }
""",
    "src/net/no_tls.cpp": "int tls() { return 1; }\n",
    "src/testing/a.cpp": "int holdfast_part();\n[[gnu::visibility(\"default\")]] int testing_part() { return holdfast_part(); }\n",
    "src/rabbitmq/a.cpp": """#include <amqp.h>
int holdfast_part();
[[gnu::visibility("default")]] int rabbitmq_part() { return amqp_version_number() != 0 ? holdfast_part() : 1; }
""",
    "src/testing/broker/a.cpp": "int rabbitmq_part();\n[[gnu::visibility(\"default\")]] int rabbitmq_testing_part() { return rabbitmq_part(); }\n",
}
PROGRAM = """#include <cstdio>
int {0}();
int {1}();
int main() {{ std::puts("{2}"); return {0}() + {1}(); }}
"""


def make(tree):
    for part in ("CMakeLists.txt", "LICENSE", "cmake", "include", "packaging", "test/package"):
        (tree / part).parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (ROOT / part).is_dir() else shutil.copy)(ROOT / part, tree / part)
    programs = {
        "example/quickstart.cpp": PROGRAM.format("holdfast_part", "testing_part", OUTPUT["quickstart"]),
        "example/rabbitmq.cpp": PROGRAM.format("rabbitmq_part", "rabbitmq_testing_part", OUTPUT["rabbitmq"]),
    }
    for name, text in {**SOURCES, **programs}.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text, encoding="utf-8")

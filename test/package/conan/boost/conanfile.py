# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""The Boost of this system, with the names of ConanCenter's recipe."""

import re
from pathlib import Path

from conan import ConanFile


class SystemBoost(ConanFile):
    name = "boost"
    package_type = "shared-library"

    def set_version(self):
        number = int(re.search(r"#define BOOST_VERSION (\d+)", Path("/usr/include/boost/version.hpp").read_text())[1])
        self.version = f"{number // 100000}.{number // 100 % 1000}.{number % 100}"

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "Boost")
        for name, libs in (("headers", []), ("json", ["boost_json"])):
            component = self.cpp_info.components[name]
            component.set_property("cmake_target_name", f"Boost::{name}")
            component.includedirs = component.libdirs = component.bindirs = []
            component.system_libs = libs
        self.cpp_info.components["json"].requires = ["headers"]

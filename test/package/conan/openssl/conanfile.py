# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""The OpenSSL of this system, with the names of ConanCenter's recipe."""

import re
from pathlib import Path

from conan import ConanFile


class SystemOpenssl(ConanFile):
    name = "openssl"
    package_type = "shared-library"

    def set_version(self):
        text = Path("/usr/include/openssl/opensslv.h").read_text()
        self.version = ".".join(re.search(rf"define OPENSSL_VERSION_{part}\s+(\d+)", text)[1]
                                for part in ("MAJOR", "MINOR", "PATCH"))

    def package_info(self):
        self.cpp_info.set_property("cmake_find_mode", "both")
        self.cpp_info.set_property("cmake_file_name", "OpenSSL")
        for name, target, requires in (("crypto", "Crypto", []), ("ssl", "SSL", ["crypto"])):
            component = self.cpp_info.components[name]
            component.set_property("cmake_target_name", f"OpenSSL::{target}")
            component.includedirs = component.libdirs = component.bindirs = []
            component.system_libs = [name]
            component.requires = requires

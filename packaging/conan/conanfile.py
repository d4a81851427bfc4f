# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Conan's recipe of holdfast. `conan create packaging/conan` makes a package of this source tree.

Conan generates the CMake package and the pkg-config modules, not holdfast. So a user gets the same names of targets as
from holdfast's own CMake package, and Conan decides which of the dependencies are linked.
"""

import os
import re

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load, rmdir
from conan.tools.scm import Version

required_conan_version = ">=2.4"
LEAST_COMPILER = {"gcc": "12", "clang": "14"}


class Holdfast(ConanFile):
    name = "holdfast"
    description = "Distributed semaphores, mutexes and leader election for C++20 coroutines on Asio, kept in Consul"
    license = "BSL-1.0"
    topics = ("consul", "semaphore", "mutex", "leader-election", "asio", "coroutines")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "fPIC": [True, False], "with_tls": [True, False], "with_rabbitmq": [True, False]}
    default_options = {"shared": False, "fPIC": True, "with_tls": True, "with_rabbitmq": False}
    implements = ["auto_shared_fpic"]

    def _tree(self):
        return os.path.join(self.recipe_folder, "..", "..")

    def set_version(self):
        project = load(self, os.path.join(self._tree(), "CMakeLists.txt"))
        self.version = self.version or re.search(r"project\(holdfast VERSION ([\d.]+)", project)[1]

    def export_sources(self):
        for pattern in ("CMakeLists.txt", "LICENSE", "cmake/*", "include/*", "src/*"):
            copy(self, pattern, self._tree(), self.export_sources_folder)

    def layout(self):
        cmake_layout(self)

    def requirements(self):
        # Public headers include Asio. A program must use the Boost of the library, so the version is a part of the
        # package's identity.
        self.requires("boost/[>=1.81]", transitive_headers=True, transitive_libs=True, package_id_mode="full_version_mode")
        if self.options.with_tls:
            self.requires("openssl/[>=1.1.1 <4]")
        if self.options.with_rabbitmq:
            self.requires("rabbitmq-c/[>=0.11 <1]")

    def validate(self):
        if self.settings.os != "Linux":
            raise ConanInvalidConfiguration("holdfast needs Linux")
        check_min_cppstd(self, 20)
        compiler = str(self.settings.compiler)
        if compiler in LEAST_COMPILER and Version(self.settings.compiler.version) < LEAST_COMPILER[compiler]:
            raise ConanInvalidConfiguration(f"holdfast needs {compiler} {LEAST_COMPILER[compiler]} or later")

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["HOLDFAST_TLS"] = bool(self.options.with_tls)
        toolchain.cache_variables["HOLDFAST_RABBITMQ"] = bool(self.options.with_rabbitmq)
        for part in ("TESTS", "EXAMPLES", "BENCHMARKS", "PROGRAM"):
            toolchain.cache_variables[f"HOLDFAST_BUILD_{part}"] = False
        toolchain.generate()
        CMakeDeps(self).generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        CMake(self).install()
        for generated in ("cmake", "pkgconfig"):
            rmdir(self, os.path.join(self.package_folder, "lib", generated))

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "holdfast")
        self.cpp_info.set_property("cmake_config_version_compat", "SameMinorVersion")
        self._component("holdfast", ["boost::headers", "boost::json"], system=["pthread"])
        if self.options.with_tls:
            self.cpp_info.components["holdfast"].requires += ["openssl::ssl", "openssl::crypto"]
        self._component("testing", ["holdfast", "boost::json"])
        if self.options.with_rabbitmq:
            self._component("rabbitmq", ["holdfast", "rabbitmq-c::rabbitmq-c"])
            self._component("rabbitmq_testing", ["rabbitmq"])

    def _component(self, name, requires, system=()):
        own = "" if name == "holdfast" else f"_{name}"
        component = self.cpp_info.components[name]
        component.set_property("cmake_target_name", f"holdfast::{name}")
        component.set_property("pkg_config_name", f"holdfast{own}".replace("_", "-"))
        component.libs = [f"holdfast{own}"]
        component.requires = requires
        component.system_libs = list(system)

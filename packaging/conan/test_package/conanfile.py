# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Builds examples with the package, and runs them. They bring a fake Consul and a fake RabbitMQ of their own."""

import os

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout


class HoldfastTest(ConanFile):
    settings = "os", "arch", "compiler", "build_type"
    generators = "CMakeDeps", "VirtualRunEnv"

    def requirements(self):
        self.requires(self.tested_reference_str)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.user_presets_path = False
        toolchain.generate()

    def _programs(self):
        return ["quickstart"] + ["rabbitmq"] * bool(self.dependencies["holdfast"].options.with_rabbitmq)

    def build(self):
        cmake = CMake(self)
        for program in self._programs():
            cmake.configure(variables={"CONSUMER_RABBITMQ": program == "rabbitmq"},
                            build_script_folder=os.path.join(self.recipe_folder, "../../../test/package/examples"))
            cmake.build()

    def test(self):
        if can_run(self):
            for program in self._programs():
                self.run(os.path.join(self.cpp.build.bindir, program), env="conanrun")

# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""The rabbitmq-c of this system, with the names of ConanCenter's recipe."""

import re
from pathlib import Path

from conan import ConanFile


class SystemRabbitmqC(ConanFile):
    name = "rabbitmq-c"
    package_type = "shared-library"

    def set_version(self):
        text = Path("/usr/include/amqp.h").read_text()
        self.version = ".".join(re.search(rf"define AMQP_VERSION_{part} (\d+)", text)[1] for part in ("MAJOR", "MINOR", "PATCH"))

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "rabbitmq-c")
        component = self.cpp_info.components["rabbitmq"]
        component.set_property("cmake_target_name", "rabbitmq::rabbitmq")
        component.includedirs = component.libdirs = component.bindirs = []
        component.system_libs = [":librabbitmq.so"]  # a program may be a target `rabbitmq`, which CMake would take instead

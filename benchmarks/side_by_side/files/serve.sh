#!/bin/sh
exec sleep infinity

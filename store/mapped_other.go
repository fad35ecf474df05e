//go:build !linux

package store

import "go.etcd.io/bbolt"

func unmap(*bbolt.Tx) {}

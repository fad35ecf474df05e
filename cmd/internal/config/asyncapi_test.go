package config

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"
)

// docs/asyncapi.yaml names the queue that is taken from unless told otherwise, and
// the user that followers are.
func TestAsyncAPINamesTheDefaults(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "asyncapi.yaml"))
	require.NoError(t, err)
	var doc struct {
		Channels struct {
			Deliveries struct {
				Address  string
				Bindings struct {
					AMQP struct {
						Queue struct {
							Name    string
							Durable bool
						}
					}
				}
			}
		}
		Components struct {
			SecuritySchemes struct {
				Follower struct{ Type, Description string }
			} `yaml:"securitySchemes"`
		}
	}
	require.NoError(t, yaml.Unmarshal(data, &doc))
	queue := Default().AMQP.Queue
	require.Equal(t, queue, doc.Channels.Deliveries.Address)
	require.Equal(t, queue, doc.Channels.Deliveries.Bindings.AMQP.Queue.Name)
	require.True(t, doc.Channels.Deliveries.Bindings.AMQP.Queue.Durable)
	follower := doc.Components.SecuritySchemes.Follower
	require.Equal(t, "userPassword", follower.Type)
	require.Contains(t, follower.Description, "The user is "+FollowerUser+";")
}

# Hosts of a provider without a module here: only who and where. Nobody has applied this file: terraform/README.md.

terraform {
  required_version = ">= 1.5"
}

variable "hosts" {
  description = "Addresses of each host, by the name that the inventory has."
  type = map(object({
    public  = string
    private = string
  }))
  default = {
    "gpu-01.example.internal" = { public = "203.0.113.11", private = "10.0.0.11" }
    "gpu-02.example.internal" = { public = "203.0.113.12", private = "10.0.0.12" }
  }
}

variable "ssh_user" {
  description = "User that may become root by sudo."
  type        = string
  default     = "debian"
}

output "hosts" {
  value = {
    for name, address in var.hosts : name => {
      ssh_hostname = address.public
      ssh_user     = var.ssh_user
      peer_address = address.private
    }
  }
}

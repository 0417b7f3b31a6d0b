# Azure, Standard_ND96isr_H100_v5: eight H100 80GB a host. Nobody has applied this file: terraform/README.md.

terraform {
  required_version = ">= 1.5"
  required_providers {
    azurerm = {
      source  = "hashicorp/azurerm"
      version = ">= 3.0"
    }
  }
}

provider "azurerm" {
  features {}
}

variable "hosts" {
  description = "Private address of each host, by the name that the inventory has."
  type        = map(string)
  default = {
    "nd-01.example.internal" = "10.0.0.11"
    "nd-02.example.internal" = "10.0.0.12"
  }
}

variable "user_data" {
  description = "Folder that `enginehouse export cloud-init --into` wrote; empty for hosts that are deployed over SSH."
  type        = string
  default     = ""
}

variable "resource_group" {
  description = "Group that the hosts belong to."
  type        = string
}

variable "location" {
  description = "Region that has Standard_ND96isr_H100_v5, and quota for it."
  type        = string
}

variable "subnet" {
  description = "Subnet that holds the private addresses."
  type        = string
}

variable "ssh_key" {
  description = "Public key of the control machine, as one line."
  type        = string
}

variable "image_version" {
  description = "Version of Canonical's image of Ubuntu 24.04."
  type        = string
  default     = "latest"
}

variable "spot" {
  description = "Spot VMs: the provider may take them back, so declare notices=\"azure\"."
  type        = bool
  default     = false
}

resource "azurerm_network_interface" "host" {
  for_each = var.hosts

  name                = replace(each.key, ".", "-")
  location            = var.location
  resource_group_name = var.resource_group

  ip_configuration {
    name                          = "private"
    subnet_id                     = var.subnet
    private_ip_address_allocation = "Static"
    private_ip_address            = each.value
  }
}

resource "azurerm_linux_virtual_machine" "host" {
  for_each = var.hosts

  name                  = replace(each.key, ".", "-")
  location              = var.location
  resource_group_name   = var.resource_group
  size                  = "Standard_ND96isr_H100_v5"
  admin_username        = "ubuntu"
  network_interface_ids = [azurerm_network_interface.host[each.key].id]
  priority              = var.spot ? "Spot" : "Regular"
  eviction_policy       = var.spot ? "Deallocate" : null
  custom_data           = var.user_data == "" ? null : filebase64("${var.user_data}/${each.key}.yaml")

  admin_ssh_key {
    username   = "ubuntu"
    public_key = var.ssh_key
  }

  # The role that may read the hosts' secrets is granted to this identity.
  identity {
    type = "SystemAssigned"
  }

  os_disk {
    caching              = "ReadWrite"
    storage_account_type = "Premium_LRS"
    disk_size_gb         = 500
  }

  source_image_reference {
    publisher = "Canonical"
    offer     = "ubuntu-24_04-lts"
    sku       = "server"
    version   = var.image_version
  }
}

output "hosts" {
  value = {
    for name, host in azurerm_linux_virtual_machine.host : name => {
      ssh_hostname = host.private_ip_address
      ssh_user     = "ubuntu"
      peer_address = host.private_ip_address
    }
  }
}
